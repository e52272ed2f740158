package prose

import (
	"regexp"
	"strings"
	"unicode"
)

// MaxWords is the length of the longest sentence that is not too long.
const MaxWords = 30

// minWords is the number of words from which a text counts as a sentence.
const minWords = 3

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	// notProse matches the lines of Markdown outside paragraphs: tables, headings, HTML and lists of links.
	notProse   = regexp.MustCompile("^\\s*(```|\\||#|<|- \\[|\\d+\\. \\[)")
	bullet     = regexp.MustCompile(`^\s*([-*>]|\d+\.)\s+`)
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s`)
	goComment  = regexp.MustCompile(`^\s*//\s?(.*)$`)
	goNotProse = regexp.MustCompile(`^\s*//(go:|nolint|\+)`)
)

// Sentence is one sentence of a comment or of Markdown.
type Sentence struct {
	// Number is the line in which the sentence's paragraph begins.
	Number int
	Words  int
	Text   string
}

// Sentences returns the sentences of the file. Inline code is replaced by an X.
func Sentences(f File) []Sentence {
	var sentences []Sentence
	for _, p := range Paragraphs(f) {
		for _, text := range split(inlineCode.ReplaceAllString(p.Text, "X")) {
			if words := len(strings.Fields(text)); words >= minWords {
				sentences = append(sentences, Sentence{Number: p.Number, Words: words, Text: text})
			}
		}
	}
	return sentences
}

// Paragraph is a run of lines of prose, joined by blanks.
type Paragraph struct {
	// Number is the first line's.
	Number int
	Text   string
}

// Paragraphs returns the comments of a Go file, or the paragraphs and list items of a Markdown file.
func Paragraphs(f File) []Paragraph {
	var paragraphs []Paragraph
	var lines []string
	start := 0
	end := func() {
		if len(lines) > 0 {
			paragraphs = append(paragraphs, Paragraph{Number: start, Text: strings.Join(lines, " ")})
		}
		lines = nil
	}
	fenced := false
	for i, line := range f.Lines {
		var text string
		if f.IsGo() {
			text = commentText(line)
		} else {
			if fence.MatchString(line) {
				fenced = !fenced
			}
			if !fenced {
				text = markdownText(line)
			}
			if listItem.MatchString(line) {
				end()
			}
		}
		if text == "" {
			end()
			continue
		}
		if len(lines) == 0 {
			start = i + 1
		}
		lines = append(lines, text)
	}
	end()
	return paragraphs
}

// commentText returns the text of a line that holds nothing but a comment, and nothing for other lines.
func commentText(line string) string {
	found := goComment.FindStringSubmatch(line)
	if found == nil || goNotProse.MatchString(line) {
		return ""
	}
	return strings.TrimSpace(found[1])
}

func markdownText(line string) string {
	if notProse.MatchString(line) {
		return ""
	}
	return strings.TrimSpace(bullet.ReplaceAllString(line, ""))
}

// split cuts a paragraph into sentences. A capital letter, code, emphasis or a bracket begins the next sentence.
func split(paragraph string) []string {
	var sentences []string
	runes := []rune(paragraph)
	start := 0
	for i := 1; i < len(runes)-1; i++ {
		if !unicode.IsSpace(runes[i]) || !strings.ContainsRune(".!?", runes[i-1]) {
			continue
		}
		next := i
		for next < len(runes) && unicode.IsSpace(runes[next]) {
			next++
		}
		if next < len(runes) && begins(runes[next]) {
			sentences = append(sentences, string(runes[start:i]))
			start = next
		}
	}
	return append(sentences, string(runes[start:]))
}

func begins(r rune) bool { return r >= 'A' && r <= 'Z' || strings.ContainsRune("`*([", r) }
