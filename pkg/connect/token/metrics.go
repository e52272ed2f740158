package token

import "github.com/prometheus/client_golang/prometheus"

// collector reports when credentials expire, as of the time at which it is asked.
type collector struct {
	renewer *Renewer
	expire  *prometheus.Desc
}

func newCollector(r *Renewer) *collector {
	return &collector{renewer: r, expire: prometheus.NewDesc(
		"multicluster_scheduler_target_credentials_expire_seconds",
		"Seconds until the credentials for the target expire. It is absent if they do not expire.",
		[]string{"target"}, nil,
	)}
}

// Describe describes the metric.
func (c *collector) Describe(all chan<- *prometheus.Desc) { all <- c.expire }

// Collect computes the metric of each target.
func (c *collector) Collect(all chan<- prometheus.Metric) {
	now := c.renewer.options.Clock.Now()
	for name, expires := range c.renewer.expiries() {
		all <- prometheus.MustNewConstMetric(c.expire, prometheus.GaugeValue, expires.Sub(now).Seconds(), name)
	}
}
