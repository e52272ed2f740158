package cluster

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// entry is a cluster in a kubeconfig file, with the credentials of its administrator.
type entry struct {
	Name, Server, Authority, Cert, Key string
}

// WriteKubeconfig writes a kubeconfig file with a context for each cluster, named after the cluster. The first context
// is the current one. The file contains the credentials, so people can copy it. Without clusters, WriteKubeconfig
// removes the file.
func WriteKubeconfig(path string, clusters []*Cluster) error {
	if len(clusters) == 0 {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing %q: %w", path, err)
		}
		return nil
	}
	var entries []entry
	for _, c := range clusters {
		e, err := c.entry()
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	content, err := renderKubeconfig(entries)
	if err != nil {
		return err
	}
	if err := writeConfig(path+".new", content); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

func (c *Cluster) entry() (entry, error) {
	store := c.store()
	e := entry{Name: c.name, Server: c.Server()}
	for file, field := range map[string]*string{
		store.Cert(authority): &e.Authority, store.Cert(adminUser): &e.Cert, store.Key(adminUser): &e.Key,
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			return e, fmt.Errorf("reading %s of cluster %q: %w", filepath.Base(file), c.name, err)
		}
		*field = base64.StdEncoding.EncodeToString(content)
	}
	return e, nil
}

func renderKubeconfig(entries []entry) (string, error) {
	parsed, err := template.ParseFS(templates, "templates/admin.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("parsing the template of a kubeconfig: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, entries); err != nil {
		return "", fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return out.String(), nil
}
