import type { JsonSchema } from '@gantry/contract'
import { brokerProperties, identitySchema } from './broker-schema.ts'

const positive = { type: 'number', exclusiveMinimum: 0 }
const variable = { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }
const texts = { type: 'array', items: { type: 'string' } }
const patterns = {
  anyOf: [
    { type: 'string', minLength: 1 },
    { ...texts, minItems: 1 },
  ],
}

function object(properties: { readonly [name: string]: JsonSchema }, required: readonly string[] = []): JsonSchema {
  return { type: 'object', properties, required, additionalProperties: false }
}

function positives(...names: readonly string[]): { readonly [name: string]: JsonSchema } {
  return Object.fromEntries(names.map((name) => [name, positive]))
}

const rule = {
  type: 'object',
  properties: {
    allow: patterns,
    deny: patterns,
    ask: patterns,
    to: patterns,
    roles: texts,
    tenants: texts,
    effects: { type: 'array', items: { enum: ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] } },
    tags: texts,
    reason: { type: 'string' },
  },
  additionalProperties: false,
  oneOf: [{ required: ['allow'] }, { required: ['deny'] }, { required: ['ask'] }],
}

const port = { type: 'integer', minimum: 0, maximum: 65_535 }

/** How `gantry serve` runs. */
const service = object({
  host: { type: 'string', minLength: 1 },
  port,
  metricsPort: port,
  metricsHost: { type: 'string', minLength: 1 },
  hosts: texts,
  origins: { type: 'array', items: { type: 'string', pattern: '^https?://' } },
  roles: { type: 'array', items: { enum: ['api', 'worker', 'relay'] }, minItems: 1 },
  slots: { type: 'integer', minimum: 1, maximum: 10_000 },
  labels: { type: 'object', additionalProperties: { type: 'string' } },
  spool: { enum: ['file', 'redis'] },
  maxDeaths: { type: 'integer', minimum: 1, maximum: 1_000 },
  callbackTries: { type: 'integer', minimum: 1, maximum: 100 },
  callbackSecret: { type: 'string', minLength: 1 },
  callbacks: { type: 'object', additionalProperties: { type: 'string', pattern: '^https?://' } },
  logLevel: { enum: ['debug', 'info', 'warn', 'error', 'silent'] },
  leaseMs: { type: 'integer', minimum: 500, maximum: 3_600_000 },
  ...positives(
    ...['blockedMs', 'maxQueued', 'bodyBytes', 'inlineBytes', 'artifactBytes', 'graceMs'],
    ...['retentionMs', 'auditRetentionMs'],
  ),
})

/** The part of a configuration that is plain data; `tools`, `backends`, and objects with functions, are checked beside it. */
export const configSchema: JsonSchema = object({
  policy: object({ default: { enum: ['allow', 'deny'] }, rules: { type: 'array', items: rule } }, ['rules']),
  limits: object({
    ...positives(
      'timeoutMs',
      'maxTimeoutMs',
      'approvalMs',
      'auditMs',
      'argsBytes',
      'argsDepth',
      'resultBytes',
      'resultDepth',
    ),
    chain: object(
      positives(
        ...[
          'steps',
          'parallel',
          'referenceDepth',
          'chainBytes',
          'chainDepth',
          'items',
          'calls',
          'evaluationBytes',
          'outputBytes',
          'argsBytes',
          'argsDepth',
        ],
      ),
    ),
  }),
  secrets: {
    type: 'object',
    additionalProperties: {
      ...(object({ env: variable, file: { type: 'string', minLength: 1 } }) as object),
      minProperties: 1,
      maxProperties: 1,
    },
  },
  secretStore: {
    ...(object({
      file: { type: 'string', minLength: 1 },
      keyFile: { type: 'string', minLength: 1 },
      keyVariable: variable,
    }) as object),
    type: ['boolean', 'object'],
  },
  identity: identitySchema,
  format: { enum: ['annotate', 'assert'] },
  // What is in these is checked by the parts that read it, which name the path.
  egress: { type: 'object' },
  safeguards: { type: 'object' },
  runtimes: { type: 'object' },
  profiles: { type: 'object' },
  builtins: { type: 'boolean' },
  pins: { type: 'string', minLength: 1 },
  ...brokerProperties,
  databaseUrl: { type: 'string', pattern: '^postgres(?:ql)?://' },
  service,
  demo: { type: 'boolean' },
  $schema: { type: 'string' },
})
