import type { EffectClass, HttpAuth, HttpBinding, HttpParameter, JsonSchema, Tool, ToolExample } from '@gantry/contract'
import { compileSchema, type Validator } from '@gantry/json-schema'
import { readBody } from './body.ts'
import { dialectNamed } from './dialects.ts'
import { type Example, readResponse, toolExamples } from './media.ts'
import { nameOperations, tagName } from './names.ts'
import { listOperations, type Operation, Report } from './operations.ts'
import { type Choices, type OpenapiImport, type OpenapiOptions, readChoices } from './options.ts'
import { type Argument, nameArguments, readParameters } from './parameters.ts'
import {
  checkBudget,
  createSchemaBuilder,
  type SchemaBuilder,
  type SizeBudget,
  type ToolSchema,
  toolBudget,
} from './schema-builder.ts'
import { readSecurity, type Security } from './security.ts'
import { readServers, type Servers } from './servers.ts'
import { attempt, clip, readSource, type Source, textOf, Unusable } from './source.ts'

/**
 * Tools from an OpenAPI 3.0 or 3.1 document: one for each operation, all through one HTTP backend.
 * Pure and synchronous: it opens nothing and follows no reference out of the document, and it allows no
 * connection; the backend stays subject to the egress rules. The document is copied, and treated as hostile.
 * The report names everything that is left out or dropped. Throws INPUT_INVALID for a document that is refused as a
 * whole, CONFIG_INVALID for invalid options.
 */
export function importOpenapi(document: unknown, options: OpenapiOptions): OpenapiImport {
  const source = readSource(document)
  const choices = readChoices(options, source)
  const report = new Report()
  warnOfDocument(source, report)
  const { name } = options
  const servers = readServers(source, options, report)
  const security = readSecurity(source, name, report)
  const budget = toolBudget()
  const inputs = createSchemaBuilder(source, 'input', report, budget)
  const outputs = createSchemaBuilder(source, 'output', report, budget)
  const shared: Import = { source, name, report, servers, security, inputs, outputs, budget, checks: checkBudget() }
  const chosen = chooseOperations(source, choices, report)
  const drafts = [...chosen].flatMap(([operation, tool]) => draftOrLeave(operation, tool, shared))
  inputs.finish()
  outputs.finish()
  const tools = drafts.flatMap((draft) => finishOrLeave(draft, shared, choices))
  const { baseUrl, usedOrigins } = servers
  const origins = usedOrigins.size === 0 ? {} : { origins: [...usedOrigins] }
  const auth = security.usual.length === 0 ? {} : { auth: oneOrList(security.usual) }
  return {
    name,
    baseUrl,
    tools,
    backend: { kind: 'http', name, baseUrl, ...origins, ...auth },
    report: report.finish(tools.length),
  }
}

function warnOfDocument({ root, version, dropped }: Source, report: Report): void {
  if (dropped > 0) report.warn('', `${dropped} keys named __proto__ were dropped`)
  const dialect = root.jsonSchemaDialect
  if (version === '3.1' && dialect !== undefined && dialectNamed(dialect) === undefined) {
    report.warn('/jsonSchemaDialect', 'is an unknown dialect; schemas are read as 2020-12')
  }
}

/** The selected operations with their names; a name does not depend on the selection. */
function chooseOperations(source: Source, choices: Choices, report: Report): ReadonlyMap<Operation, string> {
  const all = nameOperations(listOperations(source, choices.maxOperations, report), report)
  const chosen = [...all].filter(([operation, name]) => choices.wants(name, tagsOf(operation)))
  report.notChosen = all.size - chosen.length
  return new Map(chosen)
}

function draftOrLeave(operation: Operation, name: string, shared: Import): readonly Draft[] {
  const made = attempt(() => draftTool(operation, name, shared))
  if ('value' in made) return [made.value]
  shared.report.leaveOut(operation.label, made.reason)
  return []
}

function finishOrLeave(draft: Draft, shared: Import, choices: Choices): readonly Tool[] {
  const { operation, name } = draft
  const made = attempt(() => finishTool(draft, shared, choices.version, choices.effectOf(operation, name)))
  if ('value' in made) return [made.value]
  shared.report.leaveOut(operation.label, made.reason)
  return []
}

const maxPath = 2_000

/** The state that is shared while one document is imported. */
interface Import {
  readonly source: Source
  readonly name: string
  readonly report: Report
  readonly servers: Servers
  readonly security: Security
  readonly inputs: SchemaBuilder
  readonly outputs: SchemaBuilder
  readonly budget: SizeBudget
  /** For schemas that are compiled to check examples. */
  readonly checks: SizeBudget
}

/** An operation as a tool, before its schemas are checked and complete. */
interface Draft {
  readonly operation: Operation
  readonly name: string
  readonly binding: HttpBinding
  readonly named: ReadonlyMap<string, Argument>
  readonly examples: readonly Example[]
  readonly input: ToolSchema
  readonly output: ToolSchema | undefined
}

/** Reads one operation; throws Unusable with the reason why it cannot be a tool. */
function draftTool(operation: Operation, name: string, shared: Import): Draft {
  const { source, report, inputs, security, servers, budget } = shared
  budget.take(0)
  if (operation.method === 'TRACE') throw new Unusable('TRACE is never sent')
  const { path, query, baseUrl } = pathOf(operation, servers)
  const auth = security.of(operation)
  const input = inputs.begin()
  const translate = (schema: Parameters<SchemaBuilder['translate']>[1], at: string) =>
    inputs.translate(input, schema, at)
  const reading = { source, operation, report, translate, auth: auth ?? security.usual }
  const parameters = readParameters(reading)
  const body = readBody(reading)
  const named = nameArguments(body?.arguments ?? [], parameters)
  inputs.end(input, inputSchema(named))
  const { output, accept } = answerOf(operation, shared)
  const binding: HttpBinding = {
    kind: 'http',
    name: shared.name,
    method: operation.method,
    path,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(query === undefined ? {} : { query }),
    ...paramsOf(named),
    ...(body === undefined ? {} : { body: body.binding }),
    ...(accept === undefined ? {} : { headers: { Accept: accept } }),
    ...(auth === undefined ? {} : { auth: oneOrList(auth) }),
  }
  return { operation, name, binding, named, examples: body?.examples ?? [], input, output }
}

/** One way to prove who calls stands alone; none, or several, are a list. */
function oneOrList(auth: readonly HttpAuth[]): HttpAuth | readonly HttpAuth[] {
  const [first, second] = auth
  return first !== undefined && second === undefined ? first : auth
}

/** The path below the base URL, and the query that some documents write behind it. */
function pathOf(
  operation: Operation,
  servers: Servers,
): { path: string; query?: { [name: string]: string }; baseUrl?: string } {
  if (operation.template.length > maxPath) throw new Unusable(`its path is longer than ${maxPath} characters`)
  const [template = '', ...constants] = operation.template.split('?')
  const { prefix, ...elsewhere } = servers.placeOf(operation)
  const path = `${prefix}${template}`
  const literal = path.replaceAll(/\{[^{}]+\}/g, 'x')
  if (/[{}]/.test(literal)) throw new Unusable('its path has a brace without its partner')
  if (literal.includes('#')) throw new Unusable('its path holds #, behind which nothing is sent to a server')
  if (/[\\\s\p{C}]/u.test(literal)) throw new Unusable('its path holds a character that no path has')
  if (literal.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment))) throw new Unusable('its path climbs')
  if (constants.length === 0) return { path, ...elsewhere }
  if (/[{}#]/.test(constants.join(''))) throw new Unusable('its path has parameters in a query')
  return { path, query: Object.fromEntries(new URLSearchParams(constants.join('?'))), ...elsewhere }
}

/** Closed, because an argument that nothing places would end up in the query or the body. */
function inputSchema(named: ReadonlyMap<string, Argument>): JsonSchema {
  const required = [...named].filter(([, argument]) => argument.required).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries([...named].map(([name, { schema }]) => [name, schema])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  }
}

function paramsOf(named: ReadonlyMap<string, Argument>): { params?: { [argument: string]: HttpParameter } } {
  const placed = [...named].flatMap(([name, { place }]) => (place === undefined ? [] : [[name, place] as const]))
  return placed.length === 0 ? {} : { params: Object.fromEntries(placed) }
}

/** An output that cannot be described leaves a tool that works, and a warning. */
function answerOf(
  operation: Operation,
  { source, outputs, report }: Import,
): { output: ToolSchema | undefined; accept?: string } {
  const output = outputs.begin()
  const read = attempt(() => readResponse(source, operation, (schema, path) => outputs.translate(output, schema, path)))
  if ('reason' in read) {
    report.warn(operation.path, `the output is not described: ${read.reason}`, operation.label)
    return { output: undefined }
  }
  const { schema, accept } = read.value
  if (schema === undefined) return { output: undefined }
  outputs.end(output, schema)
  return accept === undefined ? { output } : { output, accept }
}

const maxTitle = 200
const maxDescription = 2_000
const maxDocs = 20_000

/** The tool of a draft whose schemas were checked; throws Unusable when its input cannot be described. */
function finishTool(draft: Draft, shared: Import, version: string, effect: EffectClass): Tool {
  const { operation, input } = draft
  const { schema, cut, bytes } = shared.inputs.whole(input)
  if (cut > 0) {
    shared.report.warn(
      operation.path,
      `the input is too large; ${cut} of its definitions allow anything`,
      operation.label,
    )
  }
  const outputSchema = outputOf(draft, shared)
  const { title, description, docs } = wordsOf(operation)
  const tags = tagsOf(operation)
  const examples = examplesFor(draft, shared, { schema, bytes }, title ?? draft.name)
  return {
    namespace: shared.name,
    name: draft.name,
    version,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema: schema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(tags.length === 0 ? {} : { tags }),
    ...(docs === undefined ? {} : { docs }),
    ...(examples.length === 0 ? {} : { examples }),
    ...(operation.value.deprecated === true
      ? { deprecated: { message: 'The OpenAPI document marks this operation as deprecated.' } }
      : {}),
    backends: [draft.binding],
    effect,
  }
}

/** An example that a model could not follow as it stands is worse than none; the report says which are missing. */
function examplesFor(
  { named, examples, operation }: Draft,
  { report, checks }: Import,
  { schema, bytes }: { readonly schema: JsonSchema; readonly bytes: number },
  title: string,
): readonly ToolExample[] {
  const compile = (): Validator => {
    checks.take(bytes)
    return compileSchema(schema)
  }
  const made = attempt(() => toolExamples(named, examples, compile, title))
  const { kept, lost } = 'value' in made ? made.value : { kept: [], lost: [made.reason] }
  if (lost.length > 0) {
    report.warn(operation.path, `an example is left out, because it ${lost.join(', or ')}`, operation.label)
  }
  return kept
}

function outputOf({ operation, output }: Draft, { outputs, report }: Import): JsonSchema | undefined {
  if (output === undefined) return undefined
  const made = attempt(() => outputs.whole(output))
  if ('reason' in made) {
    report.warn(operation.path, `the output is not described: ${made.reason}`, operation.label)
    return undefined
  }
  const { schema, cut } = made.value
  if (cut > 0)
    report.warn(operation.path, `the output is too large; ${cut} of its definitions allow anything`, operation.label)
  return schema
}

/** The summary is the title; a long description is cut, and whole in the documentation. */
function wordsOf({ value, method, template }: Operation): { title?: string; description: string; docs?: string } {
  const title = textOf(value.summary)
  const text = textOf(value.description) ?? title ?? clip(`${method} ${template}`, maxDescription)
  return {
    ...(title === undefined ? {} : { title: clip(title, maxTitle) }),
    description: clip(text, maxDescription),
    ...(text.length > maxDescription ? { docs: clip(text, maxDocs) } : {}),
  }
}

/** Tags in their one spelling, in the characters that a tag may have. */
function tagsOf({ value }: Operation): readonly string[] {
  const given = Array.isArray(value.tags) ? value.tags.slice(0, 100) : []
  const tags = given.flatMap((tag) => (typeof tag === 'string' ? [tagName(tag)] : []))
  return [...new Set(tags.filter((tag) => tag !== ''))].slice(0, 20)
}
