import { createBus } from '@gantry/service/internal/observe/bus'
import { createMetrics, type Metrics } from '@gantry/service/internal/observe/metrics'

/** docs/reference/metrics.md, from the registry of the service. */
export function metricsPage(): string {
  const none = async (): Promise<number> => 0
  const metrics = createMetrics(createBus(), {
    depth: none,
    running: () => 0,
    spooled: () => 0,
    unrecorded: () => 0,
    isUp: () => true,
    lag: { redis: none, kafka: none },
    connections: () => ({}),
    sandboxes: () => ({}),
    mismatches: () => ({}),
    waiting: async () => ({}),
    stored: async () => ({}),
    tenants: ['acme'],
  })
  const all = [...metrics.list()].sort((one, other) => (one.name < other.name ? -1 : 1))
  metrics.close()
  const own = all.filter(({ name }) => /^(?:gantry|tool_executor|circuit_breaker)_/.test(name))
  return `# Metrics

Every metric of [the service](../service.md), in the text format of Prometheus at \`/metrics\`. [Observability](../observability.md#metrics) says who may read them and what to watch. The page is written by \`npm run docs -- --write\` from the registry in \`packages/service/src/observe/metrics.ts\`.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
${own.map(row).join('\n')}

- \`gantry_redis_lag\` and \`gantry_kafka_lag\` exist when the [transport](../brokers.md) is configured.
- \`gantry_tenant_tasks_total\` exists when the configuration names [tenants](../tenants.md); tenants that it does not name are counted as \`other\`.
- A histogram has the series \`_bucket\`, \`_sum\` and \`_count\`.
- The metrics of the process, \`process_*\` and \`nodejs_*\`, are those of \`prom-client\`.
`
}

function row({ name, type, labels, help }: ReturnType<Metrics['list']>[number]): string {
  return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`
}
