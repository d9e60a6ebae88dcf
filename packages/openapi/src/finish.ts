import type { EffectClass, JsonSchema, Tool, ToolExample } from '@gantry/contract'
import { compileSchema, type Validator } from '@gantry/json-schema'
import type { Draft, Import } from './draft.ts'
import { toolExamples } from './examples.ts'
import { tagName } from './names.ts'
import type { Operation } from './operations.ts'
import { clip, textOf } from './source.ts'
import { attempt } from './unusable.ts'

const maxTitle = 200
const maxDescription = 2_000
const maxDocs = 20_000

/** The tool of a draft whose schemas were checked; throws Unusable when its input cannot be described. */
export function finishTool(draft: Draft, shared: Import, version: string, effect: EffectClass): Tool {
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

/** Tags in their one spelling, in the letters that a tag may have. */
export function tagsOf({ value }: Operation): readonly string[] {
  const given = Array.isArray(value.tags) ? value.tags.slice(0, 100) : []
  const tags = given.flatMap((tag) => (typeof tag === 'string' ? [tagName(tag)] : []))
  return [...new Set(tags.filter((tag) => tag !== ''))].slice(0, 20)
}
