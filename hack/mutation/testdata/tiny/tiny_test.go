package tiny

import "testing"

func TestTiny(t *testing.T) {
	text := "x"
	if Abs(-2) != 2 || Abs(2) != 2 {
		t.Error("Abs")
	}
	if Both(nil, true) || Both(nil, false) || !Both(&text, true) {
		t.Error("Both")
	}
	if Count(3) != 3 || Name("a", "b") != "a-b" {
		t.Error("Count")
	}
	if Grade(50) != -1 || Grade(8) != 12 {
		t.Error("Grade")
	}
}
