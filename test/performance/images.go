package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	testImage  = "localhost/whoami"
	testImages = ".local/images/whoami.tar" // `clusters up` makes it
)

// realImage returns the image of pods on real nodes after so many changes. Each has a tag of its own: a kubelet waits
// before it starts an image again that it stopped within the last minutes.
func realImage(changes int) string { return fmt.Sprintf("%s:performance-%d", testImage, changes) }

// loadImages gives every real node all the images.
func loadImages(ctx context.Context) (err error) {
	in, err := os.Open(testImages)
	if err != nil {
		return fmt.Errorf("opening the test image (make clusters-up makes it): %w", err)
	}
	defer func() { _ = in.Close() }()
	path := filepath.Join(".local", "bench", "images.tar")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	var tags []string
	for i := range rounds + 1 {
		tags = append(tags, realImage(i))
	}
	if err := errors.Join(retag(out, in, tags), out.Close()); err != nil {
		return fmt.Errorf("writing the images: %w", err)
	}
	return runClusters(ctx, "load", path)
}

// retag copies an archive of one image, in the format of `docker save`, and gives the image other tags.
func retag(out io.Writer, in io.Reader, tags []string) error {
	reader, writer := tar.NewReader(in), tar.NewWriter(out)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return writer.Close()
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		if header.Name == "manifest.json" {
			if content, err = withTags(content, tags); err != nil {
				return err
			}
			header.Size = int64(len(content))
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(content); err != nil {
			return err
		}
	}
}

func withTags(manifest []byte, tags []string) ([]byte, error) {
	var images []map[string]any
	if err := json.Unmarshal(manifest, &images); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("the archive has %d images, want one", len(images))
	}
	images[0]["RepoTags"] = tags
	return json.Marshal(images)
}
