package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveHoldsManifestConfigurationAndLayer(t *testing.T) {
	made := Image{Reference: "localhost/whoami:dev", Path: "/whoami", User: "65532:65532"}
	var archive bytes.Buffer
	if err := made.Write(&archive, []byte("program")); err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"localhost/whoami:dev"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		} `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := files[manifest[0].Layers[0]]
	if diff := cmp.Diff([]string{"sha256:" + digest(layer)}, config.RootFS.DiffIDs); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	if config.Config.User != "65532:65532" || !cmp.Equal(config.Config.Entrypoint, []string{"/whoami"}) {
		t.Errorf("configuration %+v", config.Config)
	}
	if diff := cmp.Diff(map[string][]byte{"whoami": []byte("program")}, untar(t, layer)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestEqualInputGivesEqualBytes(t *testing.T) {
	made := Image{Reference: "localhost/pause:dev", Path: "/pause"}
	var one, two bytes.Buffer
	if err := errors.Join(made.Write(&one, []byte("program")), made.Write(&two, []byte("program"))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two archives of the same program differ")
	}
}
