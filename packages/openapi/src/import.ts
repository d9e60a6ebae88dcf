import type { Tool } from '@gantry/contract'
import { dialectNamed } from './dialects.ts'
import { type Draft, draftTool, finishTool, type Import, oneOrList, tagsOf } from './draft.ts'
import { nameOperations } from './names.ts'
import { listOperations, type Operation, Report } from './operations.ts'
import { type Choices, type OpenapiImport, type OpenapiOptions, readChoices } from './options.ts'
import { checkBudget, createSchemaBuilder, toolBudget } from './schema-builder.ts'
import { readSecurity } from './security.ts'
import { readServers } from './servers.ts'
import { attempt, readSource, type Source } from './source.ts'

/**
 * Tools from an OpenAPI 3.0 or 3.1 document: one for each operation, all through one HTTP backend.
 * Pure and synchronous: it opens nothing and follows no reference out of the document, and it allows nobody to connect
 * anywhere; the backend stays subject to the egress rules. The document is copied, and treated as hostile.
 * What cannot be taken over is left out, or dropped, and the report says so. Throws INPUT_INVALID for a document that is
 * no use at all, CONFIG_INVALID for wrong options.
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
    report.warn('/jsonSchemaDialect', 'is a dialect that is not known; schemas are read as 2020-12')
  }
}

/** The operations that are wanted, with their names; a name does not hang on what else is wanted. */
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
