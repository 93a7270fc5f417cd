// Program node is what a test cluster of Temporal consists of: each role of the server, the schema
// tool, the debugger, a check of dynamic configuration, and a TCP balancer with faults.
package main

import (
	"fmt"
	"os"

	"go.temporal.io/server/common/dynamicconfig"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/sql"
	"go.temporal.io/server/tools/tdbg"
)

const usage = `usage: node serve ROLE...                      roles of the server, configured by the environment
       node schema ARGUMENTS                   temporal-sql-tool
       node debug ARGUMENTS                    tdbg
       node check-dynamic FILE                 is this dynamic configuration known to the server?
       node balance LISTEN CONTROL BACKEND...  TCP; CONTROL is the path of a Unix socket`

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("%s", usage))
	}
	command, arguments := os.Args[1], os.Args[2:]
	var err error
	switch command {
	case "serve":
		err = serve(arguments)
	case "schema":
		err = sql.RunTool(os.Args[1:])
	case "debug":
		err = tdbg.NewCliApp().Run(os.Args[1:])
	case "check-dynamic":
		err = checkDynamic(arguments[0])
	case "balance":
		if len(arguments) < 3 {
			fail(fmt.Errorf("%s", usage))
		}
		err = balance(arguments[0], arguments[1], arguments[2:])
	default:
		err = fmt.Errorf("%q is not a command\n%s", command, usage)
	}
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func checkDynamic(file string) error {
	contents, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	result := dynamicconfig.LoadYamlFile(contents)
	problems := append(result.Errors, result.Warnings...)
	for _, problem := range problems {
		fmt.Fprintf(os.Stderr, "%s: %v\n", file, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s has %d problems", file, len(problems))
	}
	return nil
}
