package client

import "context"

// Budgets returns the budgets of an account and how much of them is used; an empty account means all that the key may see.
func (c *Client) Budgets(ctx context.Context, account string) ([]Budget, error) {
	data, err := budgets(ctx, repeater{c}, Optional(account))
	if err != nil {
		return nil, err
	}
	return data.Budgets, nil
}

// SetBudget sets a budget. The one of the same account, user, period and hardness is changed.
func (c *Client) SetBudget(ctx context.Context, in BudgetInput) (*Budget, error) {
	data, err := setBudget(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.SetBudget, nil
}

// RemoveBudget removes a budget.
func (c *Client) RemoveBudget(ctx context.Context, id string) error {
	_, err := removeBudget(ctx, repeater{c}, id)
	return err
}
