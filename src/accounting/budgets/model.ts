import { type Connection, type Model, Schema } from 'mongoose';
import { durableSchema, modelOf } from '../../mongo/collection.ts';
import { type Budget, storedBudgets } from '../../options/budgets.ts';

/** The budgets of one account. */
interface AccountBudgetsDocument {
  /** The account. */
  _id: string;
  /** Empty if they were removed. */
  budgets: Budget[];
}

export type AccountBudgetsModel = Model<AccountBudgetsDocument>;

const schema = new Schema<AccountBudgetsDocument>({ _id: String, budgets: storedBudgets }, durableSchema);

/** The budgets of accounts: model `<prefix>AccountBudgets`, collection `<prefix>account_budgets`. */
export function createAccountBudgetsModel(connection: Connection, prefix: string): AccountBudgetsModel {
  return modelOf(connection, `${prefix}AccountBudgets`, schema, `${prefix}account_budgets`);
}
