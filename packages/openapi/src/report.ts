import { quote } from '@gantry/core/internal/ids/quote'
import { clip } from './source.ts'
import type { OpenapiReport, OpenapiSecret, OpenapiWarning } from './types.ts'

/** More warnings than anybody reads are counted only. */
const mostWarnings = 2_000
/** Paths and reasons hold names of the document, which may be of any length. */
const maxText = 500

/** Collects what happens to the parts of a document; the same warning twice is one. */
export class Report {
  readonly leftOut: { operation: string; reason: string }[] = []
  readonly secrets = new Map<string, string>()
  readonly notImported = { callbacks: 0, webhooks: 0, links: 0 }
  notChosen = 0
  readonly #warnings = new Map<string, OpenapiWarning>()
  #more = 0

  warn(at: string, words: string, operation?: string): void {
    const [path, message] = [clip(at, maxText), clip(words, maxText)]
    const key = `${path}\n${message}`
    if (this.#warnings.has(key)) return
    if (this.#warnings.size >= mostWarnings) this.#more += 1
    else this.#warnings.set(key, { ...(operation === undefined ? {} : { operation }), path, message })
  }

  leaveOut(operation: string, reason: string): void {
    this.leftOut.push({ operation, reason: clip(reason, maxText) })
  }

  finish(imported: number): OpenapiReport {
    const warnings = [...this.#warnings.values()]
    if (this.#more > 0) warnings.push({ path: '', message: `and ${this.#more} more warnings` })
    const secrets: OpenapiSecret[] = [...this.secrets].map(([name, what]) => ({ name, what }))
    const { notChosen, leftOut, notImported } = this
    return { imported, notChosen, leftOut, warnings, secrets, notImported }
  }
}

/** `GET /pets`: how an operation is named to people, whatever its path holds. */
export function operationLabel(method: string, path: string): string {
  return `${method} ${quote(path, 200).slice(1, -1)}`
}
