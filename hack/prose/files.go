package prose

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// generated is the header by which Go tools recognize a generated file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// File is one Go or Markdown file.
type File struct {
	// Path is relative to the folder that Files read, with slashes.
	Path  string
	Lines []string
}

// Files returns the Go and Markdown files in and below the folder root, sorted by their paths. Generated files are left
// out, as are testdata, vendor, node_modules and all folders whose names begin with a dot.
func Files(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && ignoredFolder(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !isGo(path) && !isMarkdown(path) || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil || isGo(path) && generated.Match(raw) {
			return err
		}
		relative, err := filepath.Rel(root, path)
		files = append(files, NewFile(filepath.ToSlash(relative), string(raw)))
		return err
	})
	return files, err
}

// NewFile returns the file at path with the given text.
func NewFile(path, text string) File {
	return File{Path: path, Lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
}

// IsGo reports whether the file holds Go code. It holds Markdown otherwise.
func (f File) IsGo() bool { return isGo(f.Path) }

// Text returns the content of the file.
func (f File) Text() string { return strings.Join(f.Lines, "\n") + "\n" }

func isGo(path string) bool { return strings.HasSuffix(path, ".go") }

func isMarkdown(path string) bool { return strings.HasSuffix(path, ".md") }

func ignoredFolder(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "vendor"}, name)
}
