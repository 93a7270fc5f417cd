package main

import (
	"fmt"
	"os"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/temporal"
	"gopkg.in/yaml.v3"
)

// Faults names a file with the fault injection of the default store. Temporal's own template, which
// is rendered from the environment, has no place for it.
const Faults = "CLUSTER_FAULTS"

func serve(roles []string) error {
	cfg, err := config.Load(config.WithEmbedded())
	if err != nil {
		return fmt.Errorf("the environment gives no configuration: %w", err)
	}
	if file := os.Getenv(Faults); file != "" {
		if err := inject(cfg, file); err != nil {
			return err
		}
	}
	logger := log.NewZapLogger(log.BuildZapLogger(cfg.Log))
	authorizer, err := authorization.GetAuthorizerFromConfig(&cfg.Global.Authorization)
	if err != nil {
		return err
	}
	mapper, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return err
	}
	server, err := temporal.NewServer(
		temporal.ForServices(roles),
		temporal.WithConfig(cfg),
		temporal.WithLogger(logger),
		temporal.InterruptOn(temporal.InterruptCh()),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return mapper }),
	)
	if err != nil {
		return fmt.Errorf("%v cannot be made: %w", roles, err)
	}
	return server.Start()
}

func inject(cfg *config.Config, file string) error {
	contents, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	faults := &config.FaultInjection{}
	if err := yaml.Unmarshal(contents, faults); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	store := cfg.Persistence.DataStores["default"]
	store.FaultInjection = faults
	cfg.Persistence.DataStores["default"] = store
	return nil
}
