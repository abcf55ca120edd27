"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.Ledger = exports.Book = void 0;
class Book {
    constructor(visitor) {
        this.visitor = visitor;
    }
}
exports.Book = Book;
class Ledger extends Book {
    constructor(currency, visitor) {
        super(visitor);
        this.currency = currency;
        this.entries = [];
    }
    add(...entries) {
        this.entries.push(...entries);
        return this;
    }
    settle(depth) {
        const labels = this.entries.map((entry) => `${entry.account}/${this.currency}`);
        return (labels.length +
            this.visitor(depth));
    }
    static from(depth, visitor) {
        return new Ledger("EUR", visitor).add({ account: "a", amount: 1 }).settle(depth);
    }
}
exports.Ledger = Ledger;
//# sourceMappingURL=ledger.js.map