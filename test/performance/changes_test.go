package main

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWritesOfIdleClustersAreLeftOut(t *testing.T) {
	idle := writes{"c1": {"PATCH nodes": 10, "POST pods": 1}}.per(10 * time.Second)
	got := writes{"c1": {"PATCH nodes": 4, "POST pods": 100}, "c2": {"PATCH pods": 7}}.without(idle, 5*time.Second)
	want := writes{"c1": {"POST pods": 99.5}, "c2": {"PATCH pods": 7}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARolloutIsCompleteAsKubectlSaysIt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"all are updated and available": {func(*appsv1.Deployment) {}, true},
		"not observed":                  {func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }, false},
		"of an earlier generation":      {func(d *appsv1.Deployment) { d.Generation = 1 }, false},
		"not all are updated":           {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 4 }, false},
		"old ones are left":             {func(d *appsv1.Deployment) { d.Status.Replicas = 6 }, false},
		"not all are available":         {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 4 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(load{pods: 5})
			d.ObjectMeta = metav1.ObjectMeta{Generation: 2}
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: 2, UpdatedReplicas: 5, Replicas: 5, AvailableReplicas: 5,
			}
			test.change(d)
			if got := rolledOut(d, 2); got != test.want {
				t.Errorf("complete: %t, want %t", got, test.want)
			}
		})
	}
}

func TestRetagChangesTheTagsOfAnImageAndNothingElse(t *testing.T) {
	in, out := &bytes.Buffer{}, &bytes.Buffer{}
	writer := tar.NewWriter(in)
	for _, file := range [][2]string{
		{"layer.tar", "content"}, {"manifest.json", `[{"Config":"c.json","RepoTags":["a:1"],"Layers":["layer.tar"]}]`},
	} {
		if err := writer.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(file[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := retag(out, in, []string{"a:2", "a:3"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	reader := tar.NewReader(out)
	for header, err := reader.Next(); err != io.EOF; header, err = reader.Next() {
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(content)
	}
	want := map[string]string{
		"layer.tar":     "content",
		"manifest.json": `[{"Config":"c.json","Layers":["layer.tar"],"RepoTags":["a:2","a:3"]}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnArchiveOfSeveralImagesIsNotRetagged(t *testing.T) {
	if _, err := withTags([]byte(`[{},{}]`), nil); err == nil || !strings.Contains(err.Error(), "2 images") {
		t.Errorf("error %v, want the number of images", err)
	}
}
