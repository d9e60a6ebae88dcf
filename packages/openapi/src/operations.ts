import type { JsonObject } from '@gantry/contract'
import { operationLabel, type Report } from './report.ts'
import { follow, isRecord, member, type Part, parts, refused, type Source } from './source.ts'
import { attempt } from './unusable.ts'

/** One operation of a document, with what its path says for all of its operations. */
export interface Operation {
  /** In capitals. */
  readonly method: string
  /** The path as the document writes it: `/pets/{petId}`. */
  readonly template: string
  readonly label: string
  readonly value: JsonObject
  /** JSON Pointer to it. */
  readonly path: string
  /** Lists of parameters; what stands in a later one replaces the same in an earlier one. */
  readonly parameters: readonly (Part | undefined)[]
  /** Its own servers, or those of its path; an empty list is none. */
  readonly servers: Part | undefined
}

const methods: ReadonlySet<string> = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])

/** Every operation in the order of the document; those that cannot be read are left out, with the reason. */
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

/** A path item; what stands beside its reference counts more than what the reference leads to. */
function pathItem(source: Source, part: Part): Part<JsonObject> {
  const { value, path } = follow(source, part)
  if (path === part.path || !isRecord(part.value)) return { value, path }
  const { $ref, ...beside } = part.value
  return { value: { ...value, ...beside }, path }
}

function operationsOf(template: string, item: Part<JsonObject>, report: Report): Operation[] {
  return parts(item).flatMap(({ key, value, path }) => {
    if (!methods.has(key)) return []
    const method = key.toUpperCase()
    const label = operationLabel(method, template)
    const own = { value, path }
    if (!isRecord(value)) report.leaveOut(label, 'it is not an object')
    if (!isRecord(value)) return []
    const parameters = [member(item, 'parameters'), member(own, 'parameters')]
    const servers = [member(own, 'servers'), member(item, 'servers')].find((list) => parts(list).length > 0)
    return [{ method, template, label, value, path, parameters, servers }]
  })
}

/** Callbacks and links are about other requests than the one a tool makes. */
function countOthers({ callbacks, responses }: JsonObject, { notImported }: Report): void {
  if (isRecord(callbacks)) notImported.callbacks += Object.keys(callbacks).length
  if (!isRecord(responses)) return
  for (const response of Object.values(responses)) {
    if (isRecord(response) && isRecord(response.links)) notImported.links += Object.keys(response.links).length
  }
}
