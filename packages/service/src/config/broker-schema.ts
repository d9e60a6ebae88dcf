import type { JsonSchema } from '@gantry/contract'

const text = { type: 'string', minLength: 1 }
const texts = { type: 'array', items: text }
const topic = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,249}$' }
const key = { type: 'string', minLength: 1, maxLength: 200 }
/** `discord:1234` */
const ofPlatform = { pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}:[\\x21-\\x7e]{1,200}$' }
/** Whom to trust, and who we are, which takes both a certificate and its key. */
const tlsFiles = { caFile: text, certFile: text, keyFile: text }
const pair = { certFile: ['keyFile'], keyFile: ['certFile'] }
const transport = { enum: ['postgres', 'redis', 'kafka'] }

/** An identity that the host gives to whoever comes a certain way. */
export const identitySchema: JsonSchema = {
  type: 'object',
  properties: { principal: text, tenant: text, permissions: texts, roles: texts, tools: texts },
  required: ['principal', 'tenant', 'permissions'],
  additionalProperties: false,
}

/** What a configuration says of brokers and of S3. */
export const brokerProperties: { readonly [name: string]: JsonSchema } = {
  transport: { anyOf: [transport, { type: 'array', items: transport, minItems: 1, uniqueItems: true }] },
  // Its form is checked beside the schema, by the parser that connects with it.
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
      replies: texts,
      sentinelUsername: text,
      sentinelPassword: text,
      tenant: text,
      tenants: { type: 'object', propertyNames: ofPlatform, additionalProperties: text },
      permissions: texts,
      users: { type: 'object', propertyNames: ofPlatform, additionalProperties: texts },
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
