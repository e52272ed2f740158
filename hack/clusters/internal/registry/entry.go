package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const entryFile = "entry.json"

// Entry is the record of one checkout.
type Entry struct {
	Plan `json:"-"`
	// Checkout is the absolute path of the checkout.
	Checkout string `json:"checkout"`
	// ID is also in a file of the checkout, so that a later checkout at the same path is not taken for this one.
	ID string `json:"id"`
	// Boot identifies the boot of the machine in which the record was made.
	Boot string `json:"boot"`
	// Clusters maps the names of clusters to their indexes, from 1.
	Clusters map[string]int `json:"clusters"`

	dir string
}

// Dir returns the folder of a running cluster's records of processes and of the pin of its mount namespace.
func (e *Entry) Dir(cluster string) string {
	return filepath.Join(e.dir, cluster)
}

// Add records a cluster. A cluster called c3 gets index 3 if this index is free. Others get the first free index.
func (e *Entry) Add(cluster string) error {
	if _, found := e.Clusters[cluster]; found {
		return nil
	}
	used := map[int]bool{}
	for _, index := range e.Clusters {
		used[index] = true
	}
	index := wishedIndex(cluster)
	if index == 0 || used[index] {
		index = 1
		for used[index] {
			index++
		}
	}
	if index > MaxClusters {
		return fmt.Errorf("this checkout has %d clusters, the most it can have; remove some with `clusters down NAME`",
			MaxClusters)
	}
	e.Clusters[cluster] = index
	return e.save()
}

// Remove forgets a cluster. The caller has removed everything else of it.
func (e *Entry) Remove(cluster string) error {
	if err := os.RemoveAll(e.Dir(cluster)); err != nil {
		return fmt.Errorf("removing the records of cluster %q: %w", cluster, err)
	}
	delete(e.Clusters, cluster)
	return e.save()
}

// Vanished reports whether the checkout or its state is gone, or whether the machine has rebooted since.
func (e *Entry) Vanished(boot string) bool {
	id, err := os.ReadFile(IDFile(e.Checkout))
	return err != nil || strings.TrimSpace(string(id)) != e.ID || e.Boot != boot
}

func (e *Entry) save() error {
	content, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the record of %q: %w", e.Checkout, err)
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of a record: %w", err)
	}
	path := filepath.Join(e.dir, entryFile)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing the record of %q: %w", e.Checkout, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the record of %q: %w", e.Checkout, err)
	}
	return nil
}

func wishedIndex(cluster string) int {
	var index int
	if _, err := fmt.Sscanf(cluster, "c%d", &index); err != nil || index < 1 || index > MaxClusters {
		return 0
	}
	return index
}
