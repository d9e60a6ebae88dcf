import type { Issue, JsonObject, JsonSchema } from '@gantry/contract'
import { nearest } from '@gantry/core/internal/search/near'
import { compileSchema } from '@gantry/json-schema'
import { authenticationSchema } from './authentication-settings.ts'
import { type ConfigDocument, runtimeServerSchema } from './config.ts'
import { tenantsSchema } from './tenant-limits.ts'

const text = { type: 'string', minLength: 1 }
const textList = { type: 'array', items: text }
const topic = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,249}$' }
const key = { type: 'string', minLength: 1, maxLength: 200 }
/** `discord:1234` */
const ofPlatform = { pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}:[\\x21-\\x7e]{1,200}$' }
/** Authorities, and a client certificate, which needs both certificate and key. */
const tlsFiles = { caFile: text, certFile: text, keyFile: text }
const pair = { certFile: ['keyFile'], keyFile: ['certFile'] }
const transport = { enum: ['postgres', 'redis', 'kafka'] }

/** An identity that the configuration gives to callers without a credential of their own. */
export const identitySchema: JsonSchema = {
  type: 'object',
  properties: { principal: text, tenant: text, permissions: textList, roles: textList, tools: textList },
  required: ['principal', 'tenant', 'permissions'],
  additionalProperties: false,
}

/** The keys of brokers and S3. */
export const brokerProperties: { readonly [name: string]: JsonSchema } = {
  transport: { anyOf: [transport, { type: 'array', items: transport, minItems: 1, uniqueItems: true }] },
  // `parseRedisUrl`, which connecting uses too, checks its form.
  redisUrl: { type: 'string' },
  kafkaBrokers: {
    type: 'array',
    minItems: 1,
    items: {
      type: 'string',
      pattern: '^[^\\s,/:]+:(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$',
    },
  },
  kafka: {
    type: 'object',
    properties: {
      topic,
      results: topic,
      deadLetters: topic,
      messages: topic,
      events: { type: 'boolean' },
      progressMs: { type: 'integer', minimum: 0, maximum: 3_600_000 },
      group: { type: 'string', minLength: 1, maxLength: 200 },
      tls: { type: 'boolean' },
      ...tlsFiles,
      saslMechanism: { enum: ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] },
      username: text,
      password: text,
      sessionTimeoutMs: { type: 'integer', minimum: 1_000, maximum: 1_800_000 },
      identity: identitySchema,
    },
    dependentRequired: {
      ...pair,
      saslMechanism: ['username', 'password'],
      username: ['saslMechanism', 'password'],
      password: ['saslMechanism', 'username'],
    },
    additionalProperties: false,
  },
  redis: {
    type: 'object',
    properties: {
      stream: key,
      group: key,
      deadLetters: key,
      messages: key,
      replies: textList,
      sentinelUsername: text,
      sentinelPassword: text,
      tenant: text,
      tenants: { type: 'object', propertyNames: ofPlatform, additionalProperties: text },
      permissions: textList,
      users: { type: 'object', propertyNames: ofPlatform, additionalProperties: textList },
      requireHash: { type: 'boolean' },
      errorText: { type: 'boolean' },
      claimIdleMs: { type: 'integer', minimum: 1_000, maximum: 3_600_000 },
      backgroundMs: { type: 'integer', minimum: 0, maximum: 3_600_000 },
      identity: identitySchema,
      catalog: { type: 'boolean' },
      ...tlsFiles,
    },
    dependentRequired: pair,
    additionalProperties: false,
  },
  s3: {
    type: 'object',
    properties: {
      endpoint: { type: 'string', pattern: '^https?://' },
      region: text,
      bucket: { type: 'string', pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$' },
      accessKeyId: text,
      secretAccessKey: text,
      sessionToken: text,
      forcePathStyle: { type: 'boolean' },
      caFile: text,
      prefix: { type: 'string', pattern: '^[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*$', maxLength: 200 },
    },
    required: ['bucket', 'accessKeyId', 'secretAccessKey'],
    additionalProperties: false,
  },
}

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
    // The policy checks the content of these and reports its path.
    when: { type: 'object' },
    floor: { type: 'string' },
    approvers: texts,
  },
  additionalProperties: false,
  oneOf: [{ required: ['allow'] }, { required: ['deny'] }, { required: ['ask'] }, { required: ['unavailable'] }],
}

const port = { type: 'integer', minimum: 0, maximum: 65_535 }
const file = { type: 'string', minLength: 1 }

/** Settings of `gantry serve`. */
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
  // `callbackIssues` checks the form of an origin and reports its path.
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
  logFile: { type: 'boolean' },
  leaseMs: { type: 'integer', minimum: 500, maximum: 3_600_000 },
  connections: count,
  connectionsPerAddress: count,
  // `addressIssues` checks the form of an address.
  sharedAddresses: { type: 'array', items: { type: 'string', minLength: 1, maxLength: 50 }, maxItems: 1_000 },
  unauthenticatedMs: { type: 'integer', minimum: 1_000, maximum: 3_600_000 },
  waitingPerTenant: count,
  waitingPerPrincipal: count,
  ...positives(
    'blockedMs',
    'versionWaitMs',
    'maxQueued',
    'bodyBytes',
    'inlineBytes',
    'artifactBytes',
    'graceMs',
    'retentionMs',
    'auditRetentionMs',
  ),
})

/** The collector of traces. */
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

/** Settings of the MCP endpoint. */
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

/** The plain data of a configuration; `tools`, `backends` and objects with functions are checked separately. */
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
      ),
    ),
    program: object(
      positives('toolCalls', 'chainSteps', 'depth', 'parallel', 'wallMs', 'cpuMs', 'memoryBytes', 'stdoutBytes'),
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
  // The components that read these check their content and report its path.
  egress: { type: 'object' },
  safeguards: { type: 'object' },
  runtimes: { type: 'object' },
  engines: { type: 'object' },
  profiles: { type: 'object' },
  runtimeServer: runtimeServerSchema,
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
  approvals: object({
    self: { enum: ['never', 'owner'] },
    // `webhookIssues` checks the form of the URL and reports its path.
    webhook: object(
      {
        url: { type: 'string', pattern: '^https?://' },
        secret: { type: 'string', minLength: 1 },
        private: { type: 'boolean' },
      },
      ['url'],
    ),
    link: { type: 'string', pattern: '^https?://[!-~]+$', maxLength: 2_048 },
  }),
  demo: { type: 'boolean' },
  $schema: { type: 'string' },
})

/** Problems of the plain data of a configuration; unknown keys with the nearest known one. */
export function configIssues(document: JsonObject): Issue[] {
  return compileSchema(configSchema).issues(document).map(withSuggestion)
}

/** The plain data of a configuration; undefined when it does not match the schema. */
export function readDocument(value: unknown): ConfigDocument | undefined {
  return isDocument(value) ? value : undefined
}

function isDocument(value: unknown): value is ConfigDocument {
  return compileSchema(configSchema).check(value)
}

function withSuggestion(issue: Issue): Issue {
  if (issue.keyword !== 'additionalProperties') return issue
  const segments = issue.path.split('/').slice(1)
  const key = segments.at(-1) ?? ''
  const known = knownKeys(segments.slice(0, -1))
  const [near] = nearest(key, known, { limit: 1 })
  const hint = near === undefined ? `known keys: ${known.join(', ')}` : `did you mean ${near}?`
  return { ...issue, message: `is not a known key; ${hint}` }
}

/** The keys that the schema has at a path. */
function knownKeys(path: readonly string[]): readonly string[] {
  let schema: unknown = configSchema
  for (const segment of path) schema = below(asObject(schema), segment)
  const keys = Object.keys(asObject(asObject(schema).properties)).filter((key) => key !== '$schema')
  return path.length === 0 ? ['tools', 'backends', ...keys] : keys
}

function below({ items, properties, additionalProperties }: Members, segment: string): unknown {
  if (items !== undefined && /^\d+$/.test(segment)) return items
  const own = asObject(properties)
  return Object.hasOwn(own, segment) ? own[segment] : additionalProperties
}

type Members = { readonly [key: string]: unknown }

function asObject(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : {}
}
