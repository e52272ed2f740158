package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

func parsed(t *testing.T, files map[string]string) []source {
	t.Helper()
	var read []prose.File
	for path, text := range files {
		read = append(read, prose.NewFile(path, text))
	}
	sources, err := parse(read)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func TestMeasureCountsCodeAndTestsApart(t *testing.T) {
	code, tests := measure(parsed(t, map[string]string{
		"pkg/a/a.go": "// Package a is one.\npackage a\n\n// F does\n// nothing.\nfunc F() {\n}\n\n" +
			"var x = 1 // after code\n\n/* one\ntwo */\n",
		"pkg/a/a_test.go": "package a\n\nfunc g() {}\n",
		"test/e2e/e.go":   "package e2e\n",
	}))
	if code.total != 12 || code.written != 9 || code.comments != 5 {
		t.Errorf("code has %d lines, %d of them not blank, %d comments; want 12, 9, 5",
			code.total, code.written, code.comments)
	}
	if tests.total != 4 || len(tests.files) != 2 {
		t.Errorf("tests have %d lines in %d files, want 4 in 2", tests.total, len(tests.files))
	}
	want := []span{{"pkg/a/a.go:6 F", 2}}
	if diff := cmp.Diff(want, code.functions, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

func TestPercentile(t *testing.T) {
	spans := []span{{lines: 1}, {lines: 2}, {lines: 3}, {lines: 4}}
	for percent, want := range map[int]int{0: 1, 50: 2, 90: 4, 100: 4} {
		if got := percentile(spans, percent); got != want {
			t.Errorf("percentile %d is %d, want %d", percent, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("the median of nothing is %d, want 0", got)
	}
}

func TestSharedNamesAreDeclaredInMoreThanTwoPackages(t *testing.T) {
	got := sharedNames(parsed(t, map[string]string{
		"a/a.go": "package a\n\ntype kind int\n\nfunc New() {}\n\nconst twice = 1\n",
		"b/b.go": "package b\n\nvar _, kind = 1, 2\n\nfunc New() {}\n\nfunc twice() {}\n",
		"c/c.go": "package c\n\ntype t int\n\nfunc (t) kind() {}\n\nfunc New() {}\n",
		"c/d.go": "package c\n\nfunc kindly() { kind := 1; _ = kind }\n",
	}))
	want := []sharedName{{"kind", []string{"a", "b", "c"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sharedName{})); diff != "" {
		t.Errorf("shared names (-want +got):\n%s", diff)
	}
}

func TestPackagesArePrintedWithTheirJobs(t *testing.T) {
	var out strings.Builder
	printPackages(&out, parsed(t, map[string]string{
		"b/doc.go": "// Package b does one thing. It does it well.\npackage b\n",
		"b/b.go":   "package b\n",
		"a/a.go":   "package a\n",
	}))
	if diff := cmp.Diff("a: \nb: Package b does one thing.\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
