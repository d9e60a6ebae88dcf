import type { JsonObject } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import type { OpenapiReport, OpenapiSecret, OpenapiWarning } from './options.ts'
import { attempt, clip, follow, member, type Part, parts, refused, type Source } from './source.ts'

/** One operation of a document, with the common parts of its path item. */
export interface Operation {
  /** In capitals. */
  readonly method: string
  /** The path as the document writes it: `/pets/{petId}`. */
  readonly template: string
  readonly label: string
  readonly value: JsonObject
  /** JSON Pointer to it. */
  readonly path: string
  /** Lists of parameters; a parameter of a later list replaces the same one of an earlier list. */
  readonly parameters: readonly (Part | undefined)[]
  /** Its own servers, or those of its path; an empty list is none. */
  readonly servers: Part | undefined
}

const methods: ReadonlySet<string> = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])

/** Every operation in document order; invalid operations are left out with the reason. */
export function listOperations(source: Source, most: number, report: Report): readonly Operation[] {
  const root: Part = { value: source.root, path: '' }
  const found: Operation[] = []
  for (const item of parts(member(root, 'paths'))) {
    if (!item.key.startsWith('/')) continue
    const read = attempt(() => pathItem(source, item))
    if ('reason' in read) report.leaveOut(operationLabel('*', item.key), read.reason)
    else found.push(...operationsOf(item.key, read.value, report))
    if (found.length + report.leftOut.length > most)
      throw refused(`The OpenAPI document has more than ${most} operations.`, '/paths')
  }
  report.notImported.webhooks = parts(member(root, 'webhooks')).length
  for (const { value } of found) countOthers(value, report)
  return found
}

/** A path item; members next to its reference take precedence over the referenced item. */
function pathItem(source: Source, part: Part): Part<JsonObject> {
  const { value, path } = follow(source, part)
  if (path === part.path || !isObject(part.value)) return { value, path }
  const { $ref, ...siblings } = part.value
  return { value: { ...value, ...siblings }, path }
}

function operationsOf(template: string, item: Part<JsonObject>, report: Report): Operation[] {
  return parts(item).flatMap(({ key, value, path }) => {
    if (!methods.has(key)) return []
    const method = key.toUpperCase()
    const label = operationLabel(method, template)
    const own = { value, path }
    if (!isObject(value)) report.leaveOut(label, 'it is not an object')
    if (!isObject(value)) return []
    const parameters = [member(item, 'parameters'), member(own, 'parameters')]
    const servers = [member(own, 'servers'), member(item, 'servers')].find((list) => parts(list).length > 0)
    return [{ method, template, label, value, path, parameters, servers }]
  })
}

/** Callbacks and links describe other requests than that of the tool. */
function countOthers({ callbacks, responses }: JsonObject, { notImported }: Report): void {
  if (isObject(callbacks)) notImported.callbacks += Object.keys(callbacks).length
  if (!isObject(responses)) return
  for (const response of Object.values(responses)) {
    if (isObject(response) && isObject(response.links)) notImported.links += Object.keys(response.links).length
  }
}

/** Warnings beyond this number are only counted. */
const mostWarnings = 2_000
/** Length limits, because paths and reasons contain names of the document. */
const maxText = 500

/** Collects the report of an import; a repeated warning is kept once. */
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

/** `GET /pets`: the displayed name of an operation. */
function operationLabel(method: string, path: string): string {
  return `${method} ${quote(path, 200).slice(1, -1)}`
}
