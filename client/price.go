package client

import "context"

// PriceBook returns what hosted providers charge.
func (c *Client) PriceBook(ctx context.Context) (*PriceBook, error) {
	data, err := priceBook(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return &data.PriceBook, nil
}

// ImportProviderPrices adds the prices of a file, all or none. If dryRun is true, it only returns what would be added.
// Importing a file again changes nothing. A CONFLICT error says that the price book has another price from the same time.
func (c *Client) ImportProviderPrices(ctx context.Context, file, source string, dryRun bool) ([]ProviderPriceChange, error) {
	data, err := importProviderPrices(ctx, repeater{c}, ImportProviderPricesInput{Source: source, File: &file, DryRun: &dryRun})
	if err != nil {
		return nil, err
	}
	return data.ImportProviderPrices, nil
}
