import { proxyActivities, type UntypedActivities } from '@temporalio/workflow'

/** What a user of the SDK writes: activities one after the other. */
export async function bare(count: number): Promise<unknown> {
  const { work } = proxyActivities<UntypedActivities>({
    startToCloseTimeout: '1 minute',
    retry: { maximumAttempts: 1 },
  })
  let last: unknown = 0
  for (let made = 0; made < count; made += 1) last = await work?.(last)
  return last
}
