package text

import "strings"

// ProviderPrice says what a provider charges for videos of a resolution, with or without sound; "" and nil mean any. Amounts
// are decimals in US dollars.
func ProviderPrice(resolution string, sound *bool, perSecond, perCall string) string {
	var parts []string
	if perSecond != "0" {
		parts = append(parts, "$"+perSecond+" a second")
	}
	if perCall != "0" {
		parts = append(parts, "$"+perCall+" a video")
	}
	price := strings.Join(parts, " and ")
	if price == "" {
		price = "free"
	}
	of := resolution
	if sound != nil {
		of = strings.TrimSpace(of + map[bool]string{true: " with sound", false: " without sound"}[*sound])
	}
	if of != "" {
		return of + ": " + price
	}
	return price
}
