/** Why a request failed: `kind` is for programs, `message` for people. */
export class Problem extends Error {
  /** @param {number} status @param {string} kind @param {string} detail */
  constructor(status, kind, detail) {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
}
