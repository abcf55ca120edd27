/** Sums of accounts. */
export interface Entry {
    readonly account: string;
    readonly amount: number;
}

type Visitor = (depth: number) => number;

export abstract class Book {
    protected constructor(protected readonly visitor: Visitor) {}

    abstract settle(depth: number): number;
}

export class Ledger extends Book {
    private readonly entries: Entry[] = [];

    constructor(
        private readonly currency: string,
        visitor: Visitor,
    ) {
        super(visitor);
    }

    add(...entries: Entry[]): this {
        this.entries.push(...entries);
        return this;
    }

    settle(depth: number): number {
        const labels: string[] = this.entries.map(
            (entry) => `${entry.account}/${this.currency}`,
        );
        return (
            labels.length +
            this.visitor(depth)
        );
    }

    static from(depth: number, visitor: Visitor): number {
        return new Ledger("EUR", visitor).add({ account: "a", amount: 1 }).settle(depth);
    }
}
