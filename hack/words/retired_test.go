package words

import "regexp"

// retired is a word that names use no longer, because another word of the glossary says the same.
type retired struct {
	// words are the forms of the word, each in lower case. A form of several words stands for them in that order.
	words []string
	// instead is the word to use.
	instead string
	// topLevel limits the rule to the names of files and folders and, outside tests, to the functions, types, constants
	// and variables of packages. Elsewhere the word has a meaning of its own.
	topLevel bool
}

// retiredNames returns the words that neither the name of a file or folder nor a name declared in Go code may contain.
func retiredNames() []retired {
	return []retired{
		{words: []string{"kin", "kins"}, instead: "siblings"},
		{words: []string{"left"}, instead: "restore", topLevel: true},
		{words: []string{"judge", "judges", "judged", "judging"}, instead: "decide"},
		{words: []string{"verdict", "verdicts", "judgement", "judgment"}, instead: "decision"},
		{words: []string{"forge", "forges", "forging"}, instead: "desired"},
		{words: []string{"settle", "settles", "settled", "settling"}, instead: "reconcile"},
		{words: []string{"bring", "brings", "brought", "bringing"}, instead: "ensure"},
		{words: []string{"tell", "tells", "told", "telling"}, instead: "report, publish or message"},
		{words: []string{"hope", "hopes", "hoped", "hoping"}, instead: "candidate"},
		{words: []string{"story", "stories"}, instead: "env"},
		{words: []string{"retry first"}, instead: "firstRetry"},
		{words: []string{"retry last"}, instead: "lastRetry"},
		{words: []string{"shadow", "shadows", "shadowed"}, instead: "proxy, or covers"},
		{words: []string{"reflect", "reflects", "reflected"}, instead: "feedback"},
		{words: []string{"remote", "remotes"}, instead: "target, or peer"},
		{words: []string{"foreign"}, instead: "notOurs, or the owner"},
		{words: []string{"home"}, instead: "source"},
	}
}

// retiredText is a term that comments and Markdown use no longer. Inline code, code blocks and tables may contain it.
type retiredText struct {
	pattern *regexp.Regexp
	instead string
}

// retiredTexts returns the retired terms. "Local cluster" is none of them, because developers start local clusters.
func retiredTexts() []retiredText {
	return []retiredText{
		{regexp.MustCompile(`(?i)\b(home|management) clusters?\b`), "source cluster"},
		{regexp.MustCompile(`(?i)\b(remote|foreign|host|worker|member|workload) clusters?\b`), "target cluster"},
		{regexp.MustCompile(`(?i)\bshadow(ing)? pods?\b`), "proxy"},
		{regexp.MustCompile(`(?i)\b(remote|reflected) pods?\b`), "delegate"},
		{regexp.MustCompile(`(?i)\bkin\b`), "siblings"},
		{regexp.MustCompile(`(?i)\bverdicts?\b`), "decision"},
	}
}
