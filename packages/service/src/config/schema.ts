import type { JsonSchema } from '@gantry/contract'
import { authenticationSchema } from './authentication-settings.ts'
import { brokerProperties, identitySchema } from './broker-schema.ts'
import { tenantsSchema } from './tenant-settings.ts'

const positive = { type: 'number', exclusiveMinimum: 0 }
const count = { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER }
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
    unavailable: patterns,
    to: patterns,
    roles: texts,
    tenants: texts,
    effects: { type: 'array', items: { enum: ['read', 'keyed', 'reconcilable', 'once', 'repeatable'] } },
    tags: texts,
    reason: { type: 'string' },
    name: { type: 'string' },
    // What is in these is checked by the policy, which names the path.
    when: { type: 'object' },
    floor: { type: 'string' },
    approvers: texts,
  },
  additionalProperties: false,
  oneOf: [{ required: ['allow'] }, { required: ['deny'] }, { required: ['ask'] }, { required: ['unavailable'] }],
}

const port = { type: 'integer', minimum: 0, maximum: 65_535 }
const file = { type: 'string', minLength: 1 }

/** How `gantry serve` runs. */
const service = object({
  host: { type: 'string', minLength: 1 },
  port,
  metricsPort: port,
  metricsHost: { type: 'string', minLength: 1 },
  hosts: texts,
  origins: { type: 'array', items: { type: 'string', pattern: '^https?://' } },
  tls: object({ certFile: file, keyFile: file, clientCaFile: file }, ['certFile', 'keyFile']),
  roles: { type: 'array', items: { enum: ['api', 'worker', 'relay'] }, minItems: 1 },
  slots: { type: 'integer', minimum: 1, maximum: 10_000 },
  labels: { type: 'object', additionalProperties: { type: 'string' } },
  spool: { enum: ['file', 'redis'] },
  maxDeaths: { type: 'integer', minimum: 1, maximum: 1_000 },
  callbackTries: { type: 'integer', minimum: 1, maximum: 100 },
  callbackSecret: { type: 'string', minLength: 1 },
  // What an origin may be is said by those who read it, who name the path.
  callbackOrigins: {
    type: 'array',
    items: {
      ...(object({ origin: {}, private: { type: 'boolean' } }, ['origin']) as object),
      type: ['string', 'object'],
    },
  },
  auditSecrets: { type: 'array', items: { type: 'string', minLength: 1 }, maxItems: 20 },
  callbacks: { type: 'object', additionalProperties: { type: 'string', pattern: '^https?://' } },
  logLevel: { enum: ['debug', 'info', 'warn', 'error', 'silent'] },
  leaseMs: { type: 'integer', minimum: 500, maximum: 3_600_000 },
  connections: count,
  connectionsPerAddress: count,
  // What an address may be is said by `addressIssues`.
  sharedAddresses: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 50 }, maxItems: 1_000 },
  unauthenticatedMs: { type: 'integer', minimum: 1_000, maximum: 3_600_000 },
  waitingPerTenant: count,
  waitingPerPrincipal: count,
  ...positives(
    ...['blockedMs', 'versionWaitMs', 'maxQueued', 'bodyBytes', 'inlineBytes', 'artifactBytes', 'graceMs'],
    ...['retentionMs', 'auditRetentionMs'],
  ),
})

/** Where traces go. */
const tracing = object(
  {
    endpoint: { type: 'string', pattern: '^https?://[^@\\s]+$' },
    headers: {
      type: 'object',
      propertyNames: { pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
      additionalProperties: { type: 'string' },
    },
    sample: { type: 'number', minimum: 0, maximum: 1 },
    caFile: { type: 'string', minLength: 1 },
  },
  ['endpoint'],
)

/** What the MCP endpoint shows, and to whom. */
const mcp = {
  ...(object({
    surface: { enum: ['tools', 'compact'] },
    namespace: { type: 'string', minLength: 1 },
    sessions: { enum: ['memory', 'none'] },
    url: { type: 'string', pattern: '^https?://[^@\\s?#]+$' },
    permission: { type: 'string', pattern: '^[^\\s"\\\\]+$' },
    taskAfterMs: positive,
  }) as object),
  not: { properties: { surface: { const: 'compact' } }, required: ['surface', 'namespace'] },
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
      'innerCalls',
      'innerDepth',
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
    program: object(
      positives(
        ...['toolCalls', 'chainSteps', 'depth', 'parallel'],
        ...['wallMs', 'cpuMs', 'memoryBytes', 'stdoutBytes'],
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
  authentication: authenticationSchema,
  mcp,
  format: { enum: ['annotate', 'assert'] },
  // What is in these is checked by the parts that read it, which name the path.
  egress: { type: 'object' },
  safeguards: { type: 'object' },
  runtimes: { type: 'object' },
  profiles: { type: 'object' },
  builtins: { type: 'boolean' },
  toolsFolder: {
    ...(object({ path: { type: 'string', minLength: 1 }, allow: texts, deny: texts }, ['path']) as object),
    type: ['string', 'object'],
    minLength: 1,
  },
  sandboxNetwork: { type: 'object' },
  httpFetch: { type: 'object' },
  knowledge: object({ documents: count, bytes: count }),
  pins: { type: 'string', minLength: 1 },
  ...brokerProperties,
  databaseUrl: { type: 'string', pattern: '^postgres(?:ql)?://' },
  service,
  tenants: tenantsSchema,
  tracing,
  approvals: object({ self: { enum: ['never', 'owner'] } }),
  demo: { type: 'boolean' },
  $schema: { type: 'string' },
})
