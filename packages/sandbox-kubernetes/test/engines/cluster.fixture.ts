/** The kubeconfig of the cluster that `npm run test:engines` started, whose node has the image of sandboxes. */
export function kubeconfig(): string {
  const path = process.env.GANTRY_TEST_KUBECONFIG
  if (path === undefined) throw new Error('There is no cluster; run these tests by `npm run test:engines`.')
  return path
}

/** The image of `gantry runtime build`, as the node names it. */
export const standardImage = 'docker.io/gantry/sandbox:standard'

/** The image with every language of the suite, as the node names it. */
export const fullImage = 'docker.io/gantry/sandbox:full'
