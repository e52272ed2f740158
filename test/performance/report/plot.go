package report

import (
	"fmt"
	"math"
	"strings"
)

// bar is one bar of a plot.
type bar struct {
	label string
	value float64
}

// plot returns the bars as a Mermaid xychart, or nothing if there are none.
func plot(title, unit string, bars []bar) string {
	if len(bars) == 0 {
		return ""
	}
	var labels, values []string
	top := 0.0
	for _, b := range bars {
		labels = append(labels, fmt.Sprintf("%q", b.label))
		values = append(values, fmt.Sprintf("%.2f", b.value))
		top = max(top, b.value)
	}
	const wide = 80 // the width of a bar, with its label
	return fmt.Sprintf(`%s
%%%%{init: {"xyChart": {"width": %d, "height": 400}}}%%%%
xychart-beta
    title "%s"
    x-axis [%s]
    y-axis "%s" 0 --> %s
    bar [%s]
%s
`, "```mermaid", max(400, wide*len(bars)), title, strings.Join(labels, ", "), unit, roundUp(top),
		strings.Join(values, ", "), "```")
}

// roundUp returns the end of an axis: the next multiple of half the number's power of ten.
func roundUp(v float64) string {
	if v <= 0 {
		return "1"
	}
	unit := math.Pow10(int(math.Floor(math.Log10(v)))) / 2
	return fmt.Sprintf("%.4g", math.Ceil(v/unit)*unit)
}
