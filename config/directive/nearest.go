package directive

import "strings"

// Nearest is the known word that a mistyped one was most likely meant to be, or "": one that differs in at most a third of the letters of the
// longer one, or in one letter where that is less.
func Nearest(word string, known []string) (best string) {
	at := maxWord
	for _, k := range known {
		if d := Distance(word, k); d < at && d <= max(1, max(len(word), len(k))/3) {
			best, at = k, d
		}
	}
	return best
}

// maxWord is longer than any word that others are compared with.
const maxWord = 64

// Distance is how many letters must be put in, left out, replaced, or swapped with the next one to make b of a, whatever their case. Very long words are
// far from all.
func Distance(a, b string) int {
	if len(a) > maxWord {
		return len(a)
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	// The distances of the beginnings of a, one letter longer each, to all beginnings of b: this one's and the two before.
	row, last, before := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost = 1 + min(last[j], last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = cost
		}
	}
	return row[len(b)]
}
