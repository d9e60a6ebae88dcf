import type {
  CallLimits,
  Deprecation,
  EffectClass,
  OnCircuitOpen,
  RetryRule,
  Tool,
  ToolAnnotations,
  ToolExample,
  ToolIcon,
} from '../tool.ts'
import { anyJson, anyObject, count, dialect, every, flag, positive, type Shape, text, textMap, texts } from './shape.ts'

const closed = { additionalProperties: false } as const
const schema = { type: ['object', 'boolean'], description: 'A JSON Schema.' } as const

const annotations = {
  type: 'object',
  description: 'Hints of an MCP tool about itself: shown, never trusted.',
  properties: { title: text, readOnlyHint: flag, destructiveHint: flag, idempotentHint: flag, openWorldHint: flag },
  ...closed,
} as const satisfies Shape<ToolAnnotations>

const icon = {
  type: 'object',
  properties: { src: text, mimeType: text, sizes: texts },
  required: ['src'],
  ...closed,
} as const satisfies Shape<ToolIcon>

const example = {
  type: 'object',
  properties: { title: text, description: text, args: anyObject, output: anyJson },
  required: ['title', 'args'],
  ...closed,
} as const satisfies Shape<ToolExample>

const deprecated = {
  type: 'object',
  properties: { message: text, replacement: text },
  required: ['message'],
  ...closed,
} as const satisfies Shape<Deprecation>

const cache = {
  type: 'object',
  properties: { ttlMs: positive, scope: { enum: ['principal', 'tenant'] } },
  required: ['ttlMs'],
  ...closed,
} as const

const limits = {
  type: 'object',
  properties: { argsBytes: positive, argsDepth: positive, resultBytes: positive, resultDepth: positive },
  ...closed,
} as const satisfies Shape<CallLimits>

/** Shared with chains. */
export const retry = {
  type: 'object',
  properties: { attempts: positive, delayMs: count, maxDelayMs: count },
  required: ['attempts'],
  ...closed,
} as const satisfies Shape<RetryRule>

const binding = {
  type: 'object',
  description: "A backend's kind, its name when there are several, and what that backend needs: any other member.",
  properties: { kind: text, name: text },
  required: ['kind'],
} as const

export const toolSchema = {
  $schema: dialect,
  $id: 'urn:gantry:contract:1:tool',
  title: 'Tool',
  description:
    'A tool as the catalog holds it. Unknown members are refused, because a misspelt limit or permission must not pass as none.',
  type: 'object',
  properties: {
    namespace: { ...text, minLength: 1 },
    name: { ...text, minLength: 1 },
    version: { ...text, minLength: 1 },
    title: text,
    description: text,
    inputSchema: schema,
    outputSchema: schema,
    annotations,
    icons: { type: 'array', items: icon },
    tags: texts,
    docs: text,
    examples: { type: 'array', items: example },
    deprecated,
    aliases: texts,
    backends: { type: 'array', items: binding },
    effect: { enum: every<EffectClass>()(['read', 'keyed', 'reconcilable', 'once', 'repeatable']) },
    output: { enum: ['warn', 'strict'] },
    timeoutMs: positive,
    limits,
    permissions: texts,
    secrets: texts,
    egress: texts,
    profile: text,
    runtime: text,
    concurrencyKey: text,
    concurrency: positive,
    retry,
    breaker: flag,
    onCircuitOpen: { enum: every<OnCircuitOpen>()(['fail', 'wait']) },
    approval: { enum: ['never', 'always'] },
    placement: textMap,
    background: { type: 'boolean' },
    cost: count,
    cache,
  },
  required: ['namespace', 'name', 'version', 'description', 'inputSchema', 'backends', 'effect'],
  ...closed,
} as const satisfies Shape<Tool> & { readonly [keyword: string]: unknown }
