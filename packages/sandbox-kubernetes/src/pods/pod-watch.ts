import { ToolError } from '@gantry/contract'
import type { V1Pod } from '@kubernetes/client-node'
import type { Cluster } from '../cluster/cluster.ts'
import { createObjectWatch, type ObjectWatch } from '../cluster/object-watch.ts'

/** States of the pods of one owner, as the API reports them. */
export type PodWatch = ObjectWatch<V1Pod>

export function watchPods(cluster: Cluster, selector: string, signal: AbortSignal): PodWatch {
  const watched = createObjectWatch<V1Pod>()
  cluster.watchPods(selector, watched.report, signal)
  return watched
}

/** Rejects with the reason of the kubelet or the scheduler when the pod will not run. */
export async function runningPod(
  watched: PodWatch,
  name: string,
  onAbsentImage: () => void,
  signal: AbortSignal,
): Promise<void> {
  const pod = await watched.until(name, (one) => one === undefined || isSettled(one), signal)
  if (pod?.status?.phase === 'Running') return
  if (pod !== undefined && /Image/.test(waitingReason(pod))) onAbsentImage()
  throw new ToolError('SANDBOX_INIT_FAILED', `The pod did not start: ${reasonOf(pod)}`)
}

/** Reasons of a waiting container that no time repairs. */
const hopeless = /ErrImage|ImagePull|InvalidImageName|CreateContainer(?:Config)?Error|RunContainerError/

export function isSettled(pod: V1Pod): boolean {
  const { phase } = pod.status ?? {}
  return phase === 'Running' || phase === 'Failed' || phase === 'Succeeded' || hopeless.test(waitingReason(pod))
}

function waitingReason({ status }: V1Pod): string {
  return status?.containerStatuses?.[0]?.state?.waiting?.reason ?? ''
}

export function reasonOf(pod: V1Pod | undefined): string {
  if (pod === undefined) return 'it was deleted.'
  const { status } = pod
  const [container] = status?.containerStatuses ?? []
  const waiting = container?.state?.waiting
  const ended = container?.state?.terminated
  const unscheduled = status?.conditions?.find(({ type, status: is }) => type === 'PodScheduled' && is === 'False')
  const said = [
    waiting && `${waiting.reason}: ${waiting.message ?? ''}`,
    ended && `its init ended with ${ended.exitCode} ${ended.message ?? ended.reason ?? ''}`,
    status?.message,
    unscheduled?.message,
  ]
  return (
    said
      .filter((one) => one !== undefined && one !== '')
      .join('; ')
      .slice(0, 1_000) || 'no reason was given.'
  )
}
