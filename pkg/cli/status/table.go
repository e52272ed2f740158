package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cli-runtime/pkg/printers"
)

const none = "-"

// printTable prints the rows as kubectl does, and the troubles below them.
func printTable(out io.Writer, rows []row, wide bool, now time.Time) error {
	table := printers.GetNewTabWriter(out)
	header := []string{"NAME", "NAMESPACE", "CONNECTED", "NODE", "VERSION", "EXPIRES", "PODS", "FREE CPU",
		"FREE MEMORY"}
	if wide {
		header = append(header, "NODE NAME", "REASON")
	}
	fmt.Fprintln(table, strings.Join(header, "\t"))
	var troubles []string
	for _, r := range rows {
		fmt.Fprintln(table, strings.Join(r.cells(wide, now), "\t"))
		if trouble := r.trouble(); trouble != "" {
			troubles = append(troubles, trouble)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(troubles) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(troubles, "\n"))
	return err
}

func (r row) cells(wide bool, now time.Time) []string {
	pods, cpu, memory := none, none, none
	if r.PodsAllocatable != nil && !r.PodsAllocatable.IsZero() {
		pods = fmt.Sprintf("%d/%s", r.Pods, r.PodsAllocatable)
		cpu, memory = cores(r.FreeCPU), gibibytes(r.FreeMemory)
	}
	cells := []string{
		r.Name, orNone(r.Namespace), r.Connected, r.Node, orNone(r.Version), r.expiry(now), pods, cpu, memory,
	}
	if wide {
		cells = append(cells, orNone(r.NodeName), orNone(r.Reason))
	}
	return cells
}

func cores(q *resource.Quantity) string {
	return fmt.Sprintf("%.1f", q.AsApproximateFloat64())
}

func gibibytes(q *resource.Quantity) string {
	return fmt.Sprintf("%.1fGi", q.AsApproximateFloat64()/(1<<30))
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
