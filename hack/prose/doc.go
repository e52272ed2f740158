// Package prose reads the texts of a repository: Go files, with their comments, and Markdown files. It measures lines
// and sentences.
//
// The rules are approximate on purpose. A sentence ends at a full stop, an exclamation mark or a question mark that a
// capital letter follows, and inline code counts as one word. The same rules serve the figures (hack/figures) and the
// test of the words (hack/words), so the two cannot disagree.
package prose
