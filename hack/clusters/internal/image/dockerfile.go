package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build is an image that buildah makes from a Dockerfile.
type Build struct {
	Reference string
	// Context is the folder with the Dockerfile, and Storage the folder of buildah's own state.
	Context, Storage string
}

// WriteFile builds the image and writes its archive to a file. It downloads nothing, so the Dockerfile must build on
// scratch or on another image that is already there. The same content gives the same image.
func (b Build) WriteFile(ctx context.Context, path string) error {
	if _, err := os.Stat(filepath.Join(b.Context, "Dockerfile")); err != nil {
		return fmt.Errorf("building image %q: there is no Dockerfile in %s", b.Reference, b.Context)
	}
	err := b.buildah(ctx, "build", "--isolation", "chroot", "--pull-never", "--layers=false", "--timestamp", "0",
		"--tag", b.Reference, b.Context)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of an image: %w", err)
	}
	// buildah would add the image to an existing archive.
	fresh := path + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("removing an old image: %w", err)
	}
	if err := b.buildah(ctx, "push", "--quiet", b.Reference, "docker-archive:"+fresh+":"+b.Reference); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("writing image %q: %w", b.Reference, err)
	}
	return b.buildah(ctx, "rmi", "--prune", "--force")
}

func (b Build) buildah(ctx context.Context, args ...string) error {
	global := []string{
		"--root", filepath.Join(b.Storage, "root"), "--runroot", filepath.Join(b.Storage, "run"),
		"--storage-driver", "vfs",
	}
	cmd := exec.CommandContext(ctx, "buildah", append(global, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building image %q: running buildah %s: %w: %s", b.Reference, args[0], err, out)
	}
	return nil
}
