package token

import "github.com/prometheus/client_golang/prometheus"

// collector reports when credentials expire, and how full the Secret of renewed tokens is, as of the time at which it
// is asked.
type collector struct {
	renewer *Renewer
	expire  *prometheus.Desc
	stored  *prometheus.Desc
}

func newCollector(r *Renewer) *collector {
	return &collector{renewer: r, expire: prometheus.NewDesc(
		"multicluster_scheduler_target_credentials_expire_seconds",
		"Seconds until the credentials for the target expire. It is absent if they do not expire.",
		[]string{"target"}, nil,
	), stored: prometheus.NewDesc(
		"multicluster_scheduler_renewed_tokens_bytes",
		"Bytes of renewed tokens in the manager's Secret, by kind of the target. It is absent if there is no Secret.",
		[]string{"kind"}, nil,
	)}
}

// Describe describes the metrics.
func (c *collector) Describe(all chan<- *prometheus.Desc) {
	all <- c.expire
	all <- c.stored
}

// Collect computes the metrics.
func (c *collector) Collect(all chan<- prometheus.Metric) {
	now := c.renewer.options.Clock.Now()
	for name, expires := range c.renewer.expiries() {
		all <- prometheus.MustNewConstMetric(c.expire, prometheus.GaugeValue, expires.Sub(now).Seconds(), name)
	}
	data, err := c.renewer.store.data()
	if err != nil {
		return
	}
	clusterTargets, targets := usage(data)
	all <- prometheus.MustNewConstMetric(c.stored, prometheus.GaugeValue, float64(clusterTargets), "ClusterTarget")
	all <- prometheus.MustNewConstMetric(c.stored, prometheus.GaugeValue, float64(targets), "Target")
}
