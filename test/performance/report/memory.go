package report

import "fmt"

// Row returns the cells of a table: what there was, the memory, and the CPU time.
func (m *Memory) Row() string {
	objects, copies := "none", 0
	if f := m.Following; f != nil {
		objects = fmt.Sprintf("%d, %d, %d", f.ConfigMaps, f.Secrets, f.Services)
		for _, resource := range []string{"configmaps", "secrets", "services", "endpointslices"} {
			copies += f.Copies[resource]
		}
	}
	return fmt.Sprintf("| %d | %d | %s | %d | %.0f MiB | %.0f MiB | %.0f s | %.0f s | %.1f s |",
		m.Targets, m.Proxies, objects, copies, m.PeakMiB, m.SteadyMiB, m.First.CPU, m.Again.CPU, m.IdleCPU)
}
