package directive

import "strings"

// Nearest is the known word that a mistyped one was most likely meant to be, or "": one that differs in at most a third of its letters.
func Nearest(word string, known []string) string {
	best, at := "", len(word)/3+1
	for _, k := range known {
		if d := Distance(word, k); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best
}

// maxWord is longer than any word that others are compared with.
const maxWord = 64

// Distance is how many letters must be put in, left out or replaced to make b of a, whatever their case. Very long words are far from all.
func Distance(a, b string) int {
	if len(a) > maxWord {
		return len(a)
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
