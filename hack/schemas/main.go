package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	openapi := flag.String("openapi", "", "the swagger.json of the Kubernetes version to check against")
	out := flag.String("out", "", "the folder to write the schemas to")
	flag.Parse()
	if err := run(*openapi, *out, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "schemas: %v\n", err)
		os.Exit(1)
	}
}

// run writes schemas to the folder out. It reads those of the built-in kinds from the document at openapi, and those of
// the custom resources from the files and folders in crds.
func run(openapi, out string, crds []string) error {
	raw, err := os.ReadFile(openapi)
	if err != nil {
		return fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	defs, err := parseDefinitions(raw)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", openapi, err)
	}
	files := builtinSchemas(defs)
	for _, root := range crds {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			return addCustomSchemas(files, defs, path)
		})
		if err != nil {
			return fmt.Errorf("reading custom resource definitions in %s: %w", root, err)
		}
	}
	return writeAll(out, files)
}

func addCustomSchemas(files map[string]schema, defs map[string]schema, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	custom, err := customSchemas(raw, defs)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", path, err)
	}
	for name, s := range custom {
		files[name] = s
	}
	return nil
}

func writeAll(out string, files map[string]schema) error {
	for name, s := range files {
		raw, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", name, err)
		}
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// fileName returns the path at which kubeconform looks for the schema of a kind, given the location template
// {{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json.
func fileName(group, version, kind string) string {
	if group == "" {
		group = version
	}
	return strings.ToLower(fmt.Sprintf("%s/%s_%s.json", group, kind, version))
}
