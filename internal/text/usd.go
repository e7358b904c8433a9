package text

import "fmt"

// USD returns an amount in US dollars as people read it: cents from a dollar on, and hundredths of a cent below.
func USD(amount float64) string {
	sign, size := "", amount
	if amount < 0 {
		sign, size = "-", -amount
	}
	switch {
	case size == 0:
		return "$0"
	case size < 0.0001:
		return "less than " + sign + "$0.0001"
	case size < 1:
		return fmt.Sprintf("%s$%.4f", sign, size)
	}
	return fmt.Sprintf("%s$%.2f", sign, size)
}
