package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Image is an image that holds one program.
type Image struct {
	// Reference is the name and tag of the image.
	Reference string
	// Program is the path of a static executable on this machine. Path is its path in the image, and the entrypoint.
	Program, Path string
	// User is the numeric user and group as which the program runs.
	User string
}

// WriteFile writes the archive of the image to a file.
func (i Image) WriteFile(path string) error {
	program, err := os.ReadFile(i.Program)
	if err != nil {
		return fmt.Errorf("reading the program of image %q: %w", i.Reference, err)
	}
	var archive bytes.Buffer
	if err := i.Write(&archive, program); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing image %q: %w", i.Reference, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing image %q: %w", i.Reference, err)
	}
	return nil
}

// Write writes the archive of the image, with the given content of the program.
func (i Image) Write(to io.Writer, program []byte) error {
	layer, err := archive(file{name: i.Path[1:], mode: 0o755, content: program})
	if err != nil {
		return fmt.Errorf("making the layer of image %q: %w", i.Reference, err)
	}
	config, err := i.config(layer)
	if err != nil {
		return err
	}
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{i.Reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("encoding the manifest of image %q: %w", i.Reference, err)
	}
	whole, err := archive(
		file{name: configName, mode: 0o644, content: config},
		file{name: "layer.tar", mode: 0o644, content: layer},
		file{name: "manifest.json", mode: 0o644, content: manifest},
	)
	if err != nil {
		return fmt.Errorf("making image %q: %w", i.Reference, err)
	}
	if _, err := to.Write(whole); err != nil {
		return fmt.Errorf("writing image %q: %w", i.Reference, err)
	}
	return nil
}

func (i Image) config(layer []byte) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{i.Path}, "User": i.User, "WorkingDir": "/", "Env": []string{"PATH=/"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of image %q: %w", i.Reference, err)
	}
	return config, nil
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
