import type { JsonSchema } from '@gantry/contract'

const positive = { type: 'number', exclusiveMinimum: 0 }
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
    additionalProperties: object({ env: { type: 'string', pattern: '^[A-Za-z_][A-Za-z0-9_]*$' } }, ['env']),
  },
  identity: object(
    {
      principal: { type: 'string', minLength: 1 },
      tenant: { type: 'string', minLength: 1 },
      permissions: texts,
      roles: texts,
    },
    ['principal', 'tenant', 'permissions'],
  ),
  format: { enum: ['annotate', 'assert'] },
  demo: { type: 'boolean' },
  $schema: { type: 'string' },
})
