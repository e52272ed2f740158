package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const containerdSocket = "/run/containerd/containerd.sock"

// LoadImage imports an image archive into the node.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	if _, err := c.ctr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("loading %q into cluster %q: %w", archive, c.name, err)
	}
	return nil
}

// loadBuiltIn imports the images that every node holds, unless the node has the same images already.
func (c *Cluster) loadBuiltIn(ctx context.Context) error {
	err := c.waitFor(ctx, "containerd answers", func(ctx context.Context) bool {
		_, err := c.ctr(ctx, "images", "ls", "--quiet")
		return err == nil
	}, containerd)
	if err != nil {
		return err
	}
	for _, name := range []string{"pause.tar", "whoami.tar"} {
		archive := filepath.Join(c.Images, name)
		digest, err := fileDigest(archive)
		if err != nil {
			return err
		}
		mark := filepath.Join(c.state, "images", name+".sha256")
		if loaded, err := os.ReadFile(mark); err == nil && string(loaded) == digest {
			continue
		}
		if err := c.LoadImage(ctx, archive); err != nil {
			return err
		}
		if err := writeConfig(mark, digest); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return c.runOnNode(ctx, append([]string{"ctr", "--address", containerdSocket, "--namespace", "k8s.io"}, args...)...)
}

func fileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening an image archive: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading an image archive: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
