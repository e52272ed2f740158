package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
)

// Status writes a table of the checkout's clusters.
func (f Fleet) Status(ctx context.Context, out io.Writer) error {
	clusters, err := f.Clusters()
	if err != nil {
		return err
	}
	if len(clusters) == 0 {
		fmt.Fprintln(out, "No clusters run here; start some with `make clusters-up`.")
		return nil
	}
	rows := make([][]string, len(clusters))
	err = each(ctx, clusters, func(ctx context.Context, c *cluster.Cluster) error {
		status, err := c.Status(ctx)
		for i := range clusters {
			if clusters[i] == c {
				rows[i] = status.Row()
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{cluster.Header()}, rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
