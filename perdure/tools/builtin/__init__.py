"""The tools that perdure itself has, which a file asks for by name: `kind: builtin`."""
