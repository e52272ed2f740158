package needs

import "strings"

// Format encodes needs in few bytes, for Parse.
func Format(needs []Need) string {
	var b strings.Builder
	for i, n := range needs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(n.String())
		if n.Optional {
			b.WriteByte('?')
		}
	}
	return b.String()
}

// Parse decodes a result of Format. For any other text, it returns needs of objects that do not exist.
func Parse(text string) []Need {
	if text == "" {
		return nil
	}
	var needs []Need
	for item := range strings.SplitSeq(text, ",") {
		item, optional := strings.CutSuffix(item, "?")
		resource, name, _ := strings.Cut(item, "/")
		needs = append(needs, Need{Ref{Resource(resource), name}, optional})
	}
	return needs
}
