import { Component, type ComponentChildren } from 'preact';
import { Empty } from '../elements/states.tsx';

interface Props {
  readonly children: ComponentChildren;
}

/** Keeps the rest of the page when a view fails. */
export class Boundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <Empty title="This view has failed">
        <p class="muted">The page and the gateway may be of two versions.</p>
        <button type="button" class="button button-plain" onClick={() => window.location.reload()}>
          Reload the page
        </button>
      </Empty>
    );
  }
}
