package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// NoTargets is the message for a pod in a source that has no virtual node at all.
	NoTargets = "no cluster is available: none is connected (kubectl multicluster connect connects one, " +
		"kubectl multicluster status lists them)"

	// maxMessage is the length of a short message in bytes: the API server accepts no longer note of an event.
	maxMessage = 1024
	// maxNamed is how many of the targets that share a reason a message names.
	maxNamed = 3
	// seeExplain ends a message that was shortened.
	seeExplain = "; and more: see kubectl multicluster explain pod"
)

// Message says why none of so many clusters can take a pod now, given the reason of each target. If tried has a Trial,
// the message ends with the target in which the pod is tried. The full message is for the Explanation; the short one
// fits into an event and a condition.
func Message(clusters int, targets []Target, tried Target) (full, short string) {
	head, tail := fmt.Sprintf("0/%d clusters are available: ", clusters), "."
	if tried.Trial != "" {
		tail = fmt.Sprintf(". Trying %s, %s.", tried.Name, chance(tried.Trial))
	}
	parts := byReason(targets)
	return head + strings.Join(parts, "; ") + tail, head + abridge(parts, maxMessage-len(head)-len(tail)) + tail
}

// Shorten returns the text, cut where it does not fit into an event and a condition.
func Shorten(text string) string {
	return abridge([]string{text}, maxMessage)
}

// chance says why a trial may succeed.
func chance(trial string) string {
	switch trial {
	case TrialUnsure:
		return "whose nodes may match"
	case TrialPreempt:
		return "where less important pods may make room"
	case TrialQueue:
		return "where the pod joins a queue"
	default:
		return "which can add nodes"
	}
}

// byReason returns one part for each reason: the targets that share the reason, then the reason.
func byReason(targets []Target) []string {
	names := map[string][]string{}
	for i := range targets {
		names[targets[i].Reason] = append(names[targets[i].Reason], targets[i].Name)
	}
	parts := make([]string, 0, len(names))
	for reason, alike := range names {
		parts = append(parts, enumerate(alike)+": "+reason)
	}
	slices.Sort(parts)
	return parts
}

func enumerate(names []string) string {
	slices.Sort(names)
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// abridge joins as many parts as fit into limit bytes. If some do not fit, it adds where to read them.
func abridge(parts []string, limit int) string {
	all := strings.Join(parts, "; ")
	if len(all) <= limit {
		return all
	}
	kept := ""
	for i, part := range parts {
		next := part
		if i > 0 {
			next = kept + "; " + part
		}
		if len(next)+len(seeExplain) > limit {
			break
		}
		kept = next
	}
	if kept == "" {
		kept = cut(parts[0], limit-len(seeExplain))
	}
	return kept + seeExplain
}

// cut returns at most limit bytes of the text, and no half character.
func cut(text string, limit int) string {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
