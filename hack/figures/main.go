package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/prose"
)

func main() {
	list := flag.Bool("list", false, "also list what is too long, and the packages of each name")
	packages := flag.Bool("packages", false, "only list the packages, with the first sentence of their comments")
	flag.Parse()
	if err := run(os.Stdout, ".", *list, *packages); err != nil {
		fmt.Fprintf(os.Stderr, "figures: %v\n", err)
		os.Exit(1)
	}
}

// run measures the files below root and prints the result to out.
func run(out io.Writer, root string, list, packages bool) error {
	files, err := prose.Files(root)
	if err != nil {
		return fmt.Errorf("reading the files below %s: %w", root, err)
	}
	sources, err := parse(files)
	if err != nil {
		return err
	}
	if packages {
		printPackages(out, sources)
		return nil
	}
	code, tests := measure(sources)
	printCode(out, "Code", code, list)
	printCode(out, "Tests", tests, list)
	fmt.Fprintf(out, "Test lines per line of code: %.2f\n\n", float64(tests.total)/float64(max(code.total, 1)))
	printProse(out, files, list)
	return nil
}
